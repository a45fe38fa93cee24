// Package debian provides real programs for experiments: nginx, Apache httpd, wrk and ffmpeg. They
// are packages of Debian 12, pinned by digest. They run as ordinary processes on any Linux machine
// of architecture amd64, without a container runtime and without dpkg, and nothing is installed on
// the machine. Other architectures are not supported.
//
//	cache := debian.Cache{Progress: show}
//	nginx, err := cache.Install(ctx, "nginx")
//	site := debian.Site{Dir: dir, Address: "127.0.0.1:8080", Bytes: 1000, Workers: 4}
//	args, err := nginx.Nginx(site)
//	command := nginx.Command(args...) // for os/exec
//
//	wrk, err := cache.Install(ctx, "wrk")
//	load := debian.WrkLoad{URL: "http://127.0.0.1:8080/", Threads: 2, Connections: 64}
//	load.Duration = time.Minute
//	args, err = load.Args()
//	command = wrk.Command(args...)
//	result, err := debian.ParseWrk(output)
//
// [Root.Apache] configures Apache ("apache2"), which also serves requests that use CPU time
// ([CPUPath]); [FFmpeg] is an endless encoding job ("ffmpeg"). [Root.Image] makes a container image
// of a program.
//
// # Packages
//
// The file lock.txt lists the packages of each program with their digests. It includes the C
// library and its dynamic loader, so that a program does not depend on the machine's libraries. The
// command in the directory lock makes the file, and describes how.
//
// [Cache.Install] uses the first source that has a package:
//
//  1. the cache, by default pinfold/debian below [os.UserCacheDir]. To prepare a machine without a
//     network, copy the .deb files into its directory packages;
//  2. the mirror in the environment variable PINFOLD_DEBIAN_MIRROR;
//  3. apt-get download, if the machine has it. It uses the machine's own mirrors and proxies.
//
// The size and the SHA-256 digest of a package are verified each time before it is unpacked, so a
// source need not be trusted.
//
// # Roots
//
// A program is unpacked into a root: a directory that is laid out as / of a Debian system. Its name
// contains a digest of the program's part of the lock, so a new lock never changes a root in use. A
// process holds a lock (flock(2)) on the cache while it downloads and unpacks. It does both in a
// temporary directory and renames what is complete. The next process that holds the lock removes
// what a killed one left.
//
// [Root.Command] starts the root's own dynamic loader with the root's library directories and the
// program as arguments. The program then finds its shared libraries in the root, but sees all other
// files of the machine. Therefore [Root.Nginx] and [Root.Apache] name every file that the servers
// use.
package programs
