package engine

import "syscall"

// disk is what a file system says of itself.
type disk struct {
	free    int64  // bytes that are left for this user
	network string // its kind when it is on another machine, "" when it is not
}

const mntLocal = 0x1000 // MNT_LOCAL of statfs(2)

func diskOf(path string) (disk, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return disk{}, err
	}
	d := disk{free: int64(fs.Bavail) * int64(fs.Bsize)}
	if fs.Flags&mntLocal != 0 {
		return d, nil
	}
	for _, c := range fs.Fstypename {
		if c == 0 {
			break
		}
		d.network += string(rune(c))
	}
	return d, nil
}
