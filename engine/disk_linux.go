package engine

import "syscall"

// disk is what a file system says of itself.
type disk struct {
	free    int64  // bytes that are left for this user
	network string // its kind when it is on another machine, "" when it is not
}

// networks are file systems of other machines, by the numbers of statfs(2).
var networks = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xfe534d42: "SMB", 0xff534d42: "CIFS", 0x01021997: "9p", 0x5346414f: "AFS", 0x00c36400: "Ceph", 0x0bd00bd0: "Lustre",
}

func diskOf(path string) (disk, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return disk{}, err
	}
	return disk{free: int64(fs.Bavail) * fs.Bsize, network: networks[fs.Type&0xffffffff]}, nil
}
