// Package programs runs real programs in experiments: nginx, Apache httpd, wrk, ffmpeg, Python, Java
// and make, as they are installed on this machine.
//
//	nginx, err := programs.Find("nginx")
//	site := programs.Site{Dir: dir, Address: "127.0.0.1:8080", Bytes: 1000, Workers: 4}
//	args, err := nginx.Nginx(site)
//	command := nginx.Command(args...) // for os/exec
//
//	wrk, err := programs.Find("wrk")
//	load := programs.WrkLoad{URL: "http://127.0.0.1:8080/", Threads: 2, Connections: 64}
//	load.Duration = time.Minute
//	args, err = load.Args()
//	command = wrk.Command(args...)
//	result, err := programs.ParseWrk(output)
//
// [Program.Apache] configures Apache ("apache2"), which also serves requests that use CPU time
// ([CPUPath]); [FFmpeg] is an endless encoding job ("ffmpeg"). [Program.Python] and [Program.Java] are
// web services, and [Project] is what make builds; their sources are in this directory. Nothing of the configuration of the
// machine's own servers is used.
package programs
