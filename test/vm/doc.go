// Package vm boots virtual machines of any CPU topology and runs tests in them: on cgroup version
// 2, with several packages, NUMA nodes and SMT, regardless of the host. [Machine.Run] starts a
// [Machine]; a [Shape] is its topology.
//
// QEMU emulates every instruction, so the machines need no privileges and no KVM, and are x86-64 on
// any host. The root file system is an initramfs of static binaries of this module. The first
// process is guest/init. It runs the other binaries, mostly compiled tests, and reports their
// output on a serial port. The results become subtests of the test that started the machine.
//
// A [Machine] with a System is another kind: a Linux kernel that runs as a process of the host
// (User Mode Linux), with Debian's programs from [Root]. It runs user code almost as fast as the
// host, so TestNode runs a kubelet and containerd in it, with systemd or without.
//
// The emulated hardware threads are threads of the emulator. Topology and kernel decisions are
// real; speed and contention are not. So tests check the kernel's reports, and ratios with
// tolerance, but never absolute times.
//
// # Requirements
//
// The tests need qemu-system-x86_64 and a kernel, whose file PINFOLD_TEST_KERNEL names. The kernel
// must have these built in, not as modules: initramfs, ELF, serial port 8250, proc, sysfs, tmpfs,
// the cpu (with CFS_BANDWIDTH) and cpuset controllers of cgroup version 2, NUMA with ACPI, and SMT.
// TestOldKernel runs with a kernel before Linux 6.18 besides, whose file PINFOLD_TEST_OLD_KERNEL
// names and which has type information (BTF). Debian 12's cloud kernel (6.1) works, without
// installation:
//
//	apt-get download $(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
//	dpkg-deb -x linux-image-*.deb kernel
//	export PINFOLD_TEST_OLD_KERNEL=$(ls $PWD/kernel/boot/vmlinuz-*)
//
// TestBatchSchedulerKernels runs with the kernels in PINFOLD_TEST_EXT_KERNELS: those of Debian's
// suite trixie-backports, say, from 6.18 on, or one built from the package linux-source-6.12.
//
// TestNode runs some tests of test/node, or those that PINFOLD_TEST_NODE names, on a node with each
// cgroup driver, and on one with Debian's crun. It needs mmdebstrap, root, the programs of "make
// build-node", and a kernel of the architecture um, whose file PINFOLD_TEST_UML names. It must have
// SMP, cgroup version 2 with the cpu (CFS_BANDWIDTH), cpuset, io, memory and pids controllers,
// namespaces, overlayfs, hostfs, veth, and what else systemd and containerd need. Two things take a
// patch: a field "cpu MHz" in /proc/cpuinfo, without which the kubelet does not start, and the
// parameter umltopo=CORES,THREADS, the topology of each package in /sys.
//
// TestShapes compares what linux/sysfs reads in machines of many shapes with QEMU's configuration,
// and with the captures in linux/sysfs/testdata, which "make fixtures" regenerates.
package vm
