//go:build documents

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"pinfold.dev/pinfold/cmd/internal/frame"
)

// This file is for the archives of a release only, so that the command does not link what makes manual
// pages.
func init() { more = newDocuments }

// newDocuments returns a command that writes completions and manual pages. The pages have the given
// time.
func newDocuments() *cobra.Command {
	return &cobra.Command{
		Use: "documents DIR SECONDS", Short: "Write completions and manual pages", Hidden: true,
		Long:    "Write the directories completions and man/man1 below DIR. SECONDS is the Unix time of the pages.",
		Example: "  pinfold documents bin/documents 1800000000",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return frame.Usagef("SECONDS: %w", err)
			}
			completions, pages := filepath.Join(args[0], "completions"), filepath.Join(args[0], "man", "man1")
			if err := errors.Join(os.MkdirAll(completions, 0o755), os.MkdirAll(pages, 0o755)); err != nil {
				return err
			}
			root, at := cmd.Root(), time.Unix(seconds, 0).UTC()
			root.DisableAutoGenTag = true
			err = errors.Join(
				root.GenBashCompletionFileV2(filepath.Join(completions, "pinfold.bash"), true),
				root.GenZshCompletionFile(filepath.Join(completions, "_pinfold")),
				root.GenFishCompletionFile(filepath.Join(completions, "pinfold.fish"), true),
				doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &at, Source: "Pinfold", Manual: "Pinfold"}, pages))
			if err != nil {
				return fmt.Errorf("write documents: %w", err)
			}
			return nil
		},
	}
}
