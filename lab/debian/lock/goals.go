package main

import "pinfold.dev/pinfold/lab/debian"

// goal describes what a root must contain.
type goal struct {
	name       string   // of the program
	executable string   // path without leading slash
	packages   []string // that contain the files below and data
	plugins    []string // shared libraries that the program opens by name
}

// goals returns the programs. Each needs libgcc-s1, which the C library opens by name when a thread
// ends itself (pthread_exit(3)).
func goals() []goal {
	return []goal{
		{
			name:       "nginx",
			executable: "usr/sbin/nginx",
			packages:   []string{"nginx", "nginx-common", "libgcc-s1"}, // nginx-common has mime.types
		},
		{
			name:       "apache2",
			executable: "usr/sbin/apache2",
			packages:   []string{"apache2-bin", "media-types", "libgcc-s1"}, // media-types has mime.types
			plugins:    debian.ApacheModules(),
		},
		{
			name:       "wrk",
			executable: "usr/bin/wrk",
			packages:   []string{"wrk", "libgcc-s1"},
		},
		{
			name:       "ffmpeg",
			executable: "usr/bin/ffmpeg",
			packages:   []string{"ffmpeg", "libgcc-s1"},
		},
	}
}
