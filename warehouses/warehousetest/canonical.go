package warehousetest

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is how a value reads, whatever the warehouse calls its type: text, char, int, bool, date, timestamp,
// timestamptz, uuid or decimal(p,s).
type Kind string

// scale is s of decimal(p,s).
func (k Kind) scale() int {
	_, text, _ := strings.Cut(strings.TrimSuffix(string(k), ")"), ",")
	s, err := strconv.Atoi(text)
	if err != nil {
		panic("no scale in " + string(k))
	}
	return s
}

func (k Kind) isDecimal() bool { return strings.HasPrefix(string(k), "decimal(") }

var instantText = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z| UTC|([+-])(\d\d)(?::?(\d\d))?)?$`)

// canonical is the one text of a value, from any text that a warehouse or a person writes for it.
func canonical(k Kind, text string) (string, error) {
	switch {
	case k == "text":
		return text, nil
	case k == "char":
		return strings.TrimRight(text, " "), nil
	case k == "bool" && (text == "true" || text == "false"):
		return text, nil
	case k == "uuid":
		return strings.ToLower(text), nil
	case k == "int":
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return "", fmt.Errorf("%q is no integer", text)
		}
		return n.String(), nil
	case k.isDecimal():
		return canonicalDecimal(text, k.scale())
	case text == "infinity" || text == "-infinity":
		return text, nil
	case k == "date":
		d, err := time.Parse(time.DateOnly, text)
		return d.Format(time.DateOnly), err
	case k == "timestamp" || k == "timestamptz":
		return canonicalInstant(text)
	}
	return "", fmt.Errorf("%q is no %s", text, k)
}

// canonicalDecimal rounds halves away from zero.
func canonicalDecimal(text string, scale int) (string, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return "", fmt.Errorf("%q is no decimal", text)
	}
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	twice := new(big.Rat).Mul(r, new(big.Rat).SetInt(new(big.Int).Mul(shift, big.NewInt(2))))
	n := new(big.Int).Quo(twice.Num(), twice.Denom()) // 2 × value × 10^scale, cut off towards zero
	n.Add(n, big.NewInt(int64(n.Sign())))
	n.Quo(n, big.NewInt(2))
	digits := new(big.Int).Abs(n).String()
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	if scale > 0 {
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		digits = "-" + digits
	}
	return digits, nil
}

func canonicalInstant(text string) (string, error) {
	m := instantText.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%q is no timestamp", text)
	}
	t, err := time.Parse("2006-01-02 15:04:05", m[1]+" "+m[2])
	if err != nil {
		return "", err
	}
	if m[4] != "" {
		hours, _ := strconv.Atoi(m[5])
		minutes, _ := strconv.Atoi("0" + m[6])
		offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
		if m[4] == "+" {
			offset = -offset
		}
		t = t.Add(offset)
	}
	return t.Format("2006-01-02T15:04:05.") + (m[3] + "000000")[:6], nil
}

// digest is the change hash over canonical values, nil for NULL.
func digest(values []*string) string {
	var input strings.Builder
	for _, v := range values {
		if v == nil {
			input.WriteByte('N')
			continue
		}
		fmt.Fprintf(&input, "V%d:%s", utf8.RuneCountInString(*v), *v)
	}
	sum := md5.Sum([]byte(input.String()))
	return hex.EncodeToString(sum[:])
}

// compareValues orders two values that are not NULL: text by its bytes, all others by what they mean.
func compareValues(k Kind, a, b string) int {
	if k == "int" || k.isDecimal() {
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		return x.Cmp(y)
	}
	return strings.Compare(a, b)
}
