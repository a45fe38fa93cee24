// Package vm boots virtual machines of any topology and runs tests in them, on a
// kernel with version 2 of control groups, several packages, NUMA nodes and SMT,
// whatever the machine at hand has.
//
// A machine is QEMU's, with every instruction emulated: no privileges, no KVM, and
// x86-64 on any host. What it is like is a [Shape]. Its root file system is an
// initramfs of static binaries of this module, of which the first is guest/init;
// that runs the others, which are mostly compiled tests, and says on a serial port
// what they print. The results become subtests of the test that started the machine.
//
// The emulated hardware threads are threads of the emulator: topology and the
// kernel's decisions are real, speed and contention are not. So tests look at
// what the kernel says, and at ratios with slack; never at absolute times.
//
// What it takes: qemu-system-x86_64, and a kernel whose file PINFOLD_TEST_KERNEL
// names. The kernel must have these built in, not as modules: initramfs, ELF, serial
// port 8250, proc, sysfs, tmpfs, the cpu (with CFS_BANDWIDTH) and cpuset controllers
// of cgroup version 2, NUMA with ACPI, SMT. Seen to do: Debian 12's cloud kernel (6.1),
// which needs no installation:
//
//	apt-get download $(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
//	dpkg-deb -x linux-image-*.deb kernel
//	export PINFOLD_TEST_KERNEL=$(ls $PWD/kernel/boot/vmlinuz-*)
//
// TestShapes compares what linux/sysfs reads in machines of many shapes with what
// QEMU was told, and with the captures of them in linux/sysfs/testdata, which
// "make fixtures" makes anew.
package vm
