package control

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A long message is cut between characters. The API server would replace half of one, and the agent
// would publish the condition again in each round.
func TestConditionIsCutBetweenCharacters(t *testing.T) {
	for _, prefix := range []string{"", "-", "--"} {
		c := condition([]Notice{{Reason: "Problem", Message: prefix + strings.Repeat("µ", maxMessage)}}, nil)
		if !utf8.ValidString(c.Message) || len(c.Message) < maxMessage || !strings.HasSuffix(c.Message, " ...") {
			t.Errorf("the message of %d bytes ends with %q", len(c.Message), c.Message[len(c.Message)-6:])
		}
	}
}
