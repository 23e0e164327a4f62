package locks

import (
	"testing"
	"time"
)

func TestKeys(t *testing.T) {
	keys := map[Key]string{}
	for name, key := range map[string]Key{
		"target a, bc": TargetKey("a", "bc"),
		"target ab, c": TargetKey("ab", "c"),
		"target , abc": TargetKey("", "abc"),
		"owner abc":    OwnerKey("abc"),
		"migrate":      MigrateKey(),
	} {
		if len(key) != 64 {
			t.Errorf("%s has the key %q", name, key)
		}
		if other, ok := keys[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		keys[key] = name
	}
	const want = "714cd459938b8bbccbc9a7bda3e62203f20ca46fa940956fdcfd4e5152397eb5"
	if got := MigrateKey(); got != want { // processes of two versions must agree
		t.Errorf("the key of migrations is %s, want %s", got, want)
	}
}

func TestHolderString(t *testing.T) {
	since := time.Date(2026, 9, 1, 7, 0, 0, 0, time.FixedZone("CEST", 7200))
	for want, h := range map[string]Holder{
		"pipeline SALES, task load_orders (host h1, pid 47) since 2026-09-01 05:00:00 UTC": {Host: "h1", PID: 47, Pipeline: "SALES", Task: "load_orders", Since: since},
		"pipeline SALES (host h1, pid 47) since 2026-09-01 05:00:00 UTC":                   {Host: "h1", PID: 47, Pipeline: "SALES", Since: since},
		"a process (host h1, pid 47) since 2026-09-01 05:00:00 UTC":                        {Host: "h1", PID: 47, Since: since},
	} {
		if got := h.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
