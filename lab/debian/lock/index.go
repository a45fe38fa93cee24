package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"pault.ag/go/debian/control"
	"pault.ag/go/debian/dependency"
	"pault.ag/go/debian/version"

	"pinfold.dev/pinfold/lab/debian"
)

// candidate is a package of a mirror.
type candidate struct {
	debian.Package
	version version.Version // parsed
	depends []string        // names of the packages on which it depends directly, including alternatives
}

// parseIndex reads a mirror's Packages file. It returns the latest version of each package by name.
func parseIndex(r io.Reader) (map[string]candidate, error) {
	paragraphs, err := control.NewParagraphReader(bufio.NewReader(r), nil)
	if err != nil {
		return nil, fmt.Errorf("read the list of packages: %w", err)
	}
	index := map[string]candidate{}
	for {
		paragraph, err := paragraphs.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		c, err := parseCandidate(paragraph.Values)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", paragraph.Values["Package"], err)
		}
		if old, ok := index[c.Name]; !ok || version.Compare(old.version, c.version) < 0 {
			index[c.Name] = c
		}
	}
	if len(index) == 0 {
		return nil, errors.New("the list of packages on standard input is empty")
	}
	return index, nil
}

func parseCandidate(fields map[string]string) (candidate, error) {
	size, err := strconv.ParseInt(fields["Size"], 10, 64)
	if err != nil {
		return candidate{}, fmt.Errorf("size: %w", err)
	}
	c := candidate{Package: debian.Package{
		Name: fields["Package"], Version: fields["Version"], Architecture: fields["Architecture"],
		SHA256: fields["SHA256"], Size: size, Path: fields["Filename"],
	}}
	if c.version, err = version.Parse(c.Version); err != nil {
		return candidate{}, fmt.Errorf("version: %w", err)
	}
	for _, field := range []string{fields["Pre-Depends"], fields["Depends"]} {
		parsed, err := dependency.Parse(strings.TrimSpace(field))
		if err != nil {
			return candidate{}, fmt.Errorf("dependencies: %w", err)
		}
		for _, p := range parsed.GetAllPossibilities() {
			c.depends = append(c.depends, p.Name)
		}
	}
	slices.Sort(c.depends)
	c.depends = slices.Compact(c.depends)
	return c, nil
}
