package snowflake

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"hash"
	"os"
)

// readPrivateKey reads a key in PEM form: PKCS#8, plain or encrypted as openssl does it, or PKCS#1. Its errors do not tell what
// is in the file.
func readPrivateKey(path, passphrase string) (*rsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it is not in PEM form")
	}
	der := block.Bytes
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			return nil, errors.New("it cannot be read; only PKCS#8 keys may be encrypted")
		}
		return key, nil
	case "ENCRYPTED PRIVATE KEY":
		if passphrase == "" {
			return nil, errors.New("it is encrypted, and there is no private_key_passphrase")
		}
		if der, err = decrypt(der, passphrase); err != nil {
			return nil, err
		}
	case "PRIVATE KEY":
	default:
		return nil, errors.New("it holds a " + block.Type + ", not a private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("it cannot be read, or private_key_passphrase is wrong")
	}
	rsaKey, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("it is not an RSA key")
	}
	return rsaKey, nil
}

// What encrypts keys, by RFC 8018.
var (
	pbes2      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	pbkdf2OID  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	hmacSHA1   = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 7}
	hmacSHA256 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
	hmacSHA512 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 11}
	desEDE3CBC = asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}
	aes128CBC  = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}
	aes192CBC  = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 22}
	aes256CBC  = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
)

type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct{ Derivation, Encryption pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

// mostIterations keeps a file from costing minutes.
const mostIterations = 10_000_000

func decrypt(der []byte, passphrase string) ([]byte, error) {
	unknown := errors.New("it is encrypted in a way that is not known; make it anew with openssl pkcs8 -topk8 -v2 aes-256-cbc")
	var k encryptedKey
	var p pbes2Params
	var d pbkdf2Params
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 || !k.Algorithm.Algorithm.Equal(pbes2) {
		return nil, unknown
	}
	if _, err := asn1.Unmarshal(k.Algorithm.Parameters.FullBytes, &p); err != nil || !p.Derivation.Algorithm.Equal(pbkdf2OID) {
		return nil, unknown
	}
	if _, err := asn1.Unmarshal(p.Derivation.Parameters.FullBytes, &d); err != nil || d.Iterations < 1 || d.Iterations > mostIterations {
		return nil, unknown
	}
	digest := map[string]func() hash.Hash{"": sha1.New, hmacSHA1.String(): sha1.New, hmacSHA256.String(): sha256.New, hmacSHA512.String(): sha512.New}[d.PRF.Algorithm.String()]
	length, block := 0, aes.NewCipher
	switch e := p.Encryption.Algorithm; {
	case e.Equal(desEDE3CBC):
		length, block = 24, des.NewTripleDESCipher
	case e.Equal(aes128CBC):
		length = 16
	case e.Equal(aes192CBC):
		length = 24
	case e.Equal(aes256CBC):
		length = 32
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Encryption.Parameters.FullBytes, &iv); err != nil || length == 0 || digest == nil {
		return nil, unknown
	}
	key, err := pbkdf2.Key(digest, passphrase, d.Salt, d.Iterations, length)
	if err != nil {
		return nil, unknown
	}
	c, err := block(key)
	if err != nil || len(iv) != c.BlockSize() || len(k.Data) == 0 || len(k.Data)%c.BlockSize() != 0 {
		return nil, unknown
	}
	plain := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(c, iv).CryptBlocks(plain, k.Data)
	padding := int(plain[len(plain)-1])
	if padding < 1 || padding > c.BlockSize() {
		return nil, errors.New("private_key_passphrase is wrong")
	}
	return plain[:len(plain)-padding], nil
}
