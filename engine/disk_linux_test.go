package engine

import "testing"

// The numbers are those of statfs(2).
func TestNetworkFileSystems(t *testing.T) {
	for number, name := range map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0xef53: "", 0x01021994: "", 0x9123683e: ""} {
		if networks[number] != name {
			t.Errorf("%x is %q, want %q", number, networks[number], name)
		}
	}
	d, err := diskOf(t.TempDir())
	if err != nil || d.free <= 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
