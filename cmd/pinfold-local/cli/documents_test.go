package cli

import (
	"testing"

	"pinfold.dev/pinfold/cmd/internal/usage/usagetest"
)

func TestDocuments(t *testing.T) { usagetest.Documents(t, newRoot) }

func TestWrongFlags(t *testing.T) { usagetest.WrongFlags(t, newRoot) }
