package sysfs

import (
	"fmt"
	"strings"
)

// notes collects what is wrong with files, and what is assumed instead. Faults for which the same
// is assumed share a note, so that a machine of many CPUs has few.
type notes struct {
	list []note
}

type note struct {
	fault   string // the first one: names the file
	assumed string
	more    int // further faults
}

// maxFault is the length in bytes after which a fault is cut: files may have any content.
const maxFault = 240

func (n *notes) add(assumed string, fault error) {
	n.addf(assumed, "%v", fault)
}

// addf is add for a fault that is formatted only if it is shown.
func (n *notes) addf(assumed, format string, args ...any) {
	for i := range n.list {
		if n.list[i].assumed == assumed {
			n.list[i].more++
			return
		}
	}
	text := fmt.Sprintf(format, args...)
	if len(text) > maxFault {
		text = strings.ToValidUTF8(text[:maxFault], "") + "..."
	}
	n.list = append(n.list, note{fault: text, assumed: assumed})
}

func (n note) String() string {
	more := ""
	if n.more > 0 {
		more = fmt.Sprintf(" (and %d more)", n.more)
	}
	return fmt.Sprintf("%s%s; %s", n.fault, more, n.assumed)
}

func (n *notes) texts() []string {
	var texts []string
	for _, one := range n.list {
		texts = append(texts, one.String())
	}
	return texts
}
