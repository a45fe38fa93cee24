package programs

import (
	_ "embed" // the template
	"fmt"
)

//go:embed nginx.conf.tmpl
var nginxTemplate string

// Nginx writes the configuration of a site with a given number of worker processes, and returns the
// arguments that run it in the foreground. SIGTERM ends nginx at once, SIGQUIT after the requests
// that it is serving. It writes its errors to error.log in the site's directory.
//
// If this process is root, the workers stay root, because nobody, the user that nginx would choose,
// may be unable to read the site's directory.
func (p Program) Nginx(s Site) (args []string, err error) {
	text, err := p.configure("nginx", nginxTemplate, configuration{Site: s})
	if err != nil {
		return nil, err
	}
	if err := s.write(map[string]string{"nginx.conf": text}); err != nil {
		return nil, fmt.Errorf("nginx: %w", err)
	}
	return []string{"-p", s.Dir, "-c", s.path("nginx.conf"), "-e", s.path(errorLog)}, nil
}
