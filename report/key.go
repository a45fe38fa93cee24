package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
)

// Symbols of CPUs without an owner, and of CPUs with two.
const (
	symbolRest     = '.'
	symbolConfined = ':'
	symbolReserved = '#'
	symbolIsolated = '~'
	symbolOffline  = 'x'
	symbolClash    = '!'
	symbolMany     = '*' // of an owner when all letters are taken
)

// Letters for owners, without Greek letters that look like Latin ones, and without x, the symbol of
// offline CPUs.
const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	smalls   = "abcdefghijklmnopqrstuvwyz"
	greek    = "ΓΔΘΛΞΠΣΦΨΩαβγδεζηθλμξπρστφψω"
)

// key assigns characters to CPUs and explains them in the legend.
type key struct {
	machine *topology.Machine
	online  cpuset.Set
	rest    string
	owners  []Owner // with symbols
	// The following are disjoint. Owned CPUs are in neither isolated nor reserved.
	owned                                  map[cpuset.CPU]int // index in owners
	clash, reserved, isolated, confinement cpuset.Set
}

func newKey(m *topology.Machine, opts MapOptions) *key {
	k := &key{machine: m, online: m.Online(), rest: opts.Rest, owned: map[cpuset.CPU]int{}}
	if k.rest == "" {
		k.rest = "CPU"
		if len(opts.Owners) > 0 || !opts.Reserved.IsEmpty() {
			k.rest = "shared"
		}
	}
	k.owners = slices.Clone(opts.Owners)
	k.assignSymbols()
	var held cpuset.Set
	for i, o := range k.owners {
		if o.Confined {
			k.confinement = k.confinement.Union(o.CPUs)
			continue
		}
		k.clash = k.clash.Union(held.Intersection(o.CPUs))
		held = held.Union(o.CPUs)
		for c := range o.CPUs.All() {
			k.owned[c] = i
		}
	}
	free := k.online.Difference(held)
	k.reserved = opts.Reserved.Intersection(free)
	free = free.Difference(k.reserved)
	k.isolated = m.Isolated.Intersection(free)
	k.confinement = k.confinement.Intersection(free.Difference(k.isolated))
	k.clash = k.clash.Intersection(k.online)
	return k
}

// assignSymbols gives a letter to every owner without a symbol.
func (k *key) assignSymbols() {
	taken := map[rune]bool{}
	for _, o := range k.owners {
		taken[o.Symbol] = true
	}
	next := func(letters string) rune {
		for _, r := range letters {
			if !taken[r] {
				taken[r] = true
				return r
			}
		}
		return symbolMany
	}
	for i := range k.owners {
		if o := &k.owners[i]; o.Confined && o.Symbol == 0 {
			o.Symbol = next(smalls)
		}
	}
	for i := range k.owners {
		if o := &k.owners[i]; o.Symbol == 0 {
			o.Symbol = next(capitals + greek + smalls)
		}
	}
}

func (k *key) glyph(c cpuset.CPU) glyph {
	i, owned := k.owned[c]
	switch {
	case k.clash.Contains(c):
		return glyph{symbolClash, warning}
	case !k.online.Contains(c):
		return glyph{symbolOffline, dim}
	case owned:
		return glyph{k.owners[i].Symbol, ownerColour(i)}
	case k.reserved.Contains(c):
		return glyph{symbolReserved, plain}
	case k.isolated.Contains(c):
		return glyph{symbolIsolated, plain}
	case k.confinement.Contains(c):
		return glyph{symbolConfined, plain}
	default:
		return glyph{symbolRest, plain}
	}
}

// confinedHere lists the owners that are confined to some of these CPUs.
func (k *key) confinedHere(cpus cpuset.Set, width int) []line {
	tokens := []string{"confined here: "}
	for _, o := range k.owners {
		if o.Confined && o.CPUs.Intersects(cpus) {
			tokens = append(tokens, string(o.Symbol)+" ")
		}
	}
	if len(tokens) == 1 {
		return nil
	}
	return wrapped(tokens, width)
}

// legend explains the symbols in the drawing and lists the owners.
func (k *key) legend(width int) []line {
	drawn := map[rune]bool{}
	for _, s := range sectionsOf(k.machine) {
		for _, c := range s.cells {
			for r := range c.first {
				for column := range c.cores {
					drawn[k.glyph(c.cpu(r, column)).char] = true
				}
			}
		}
	}
	pieces := []string{"Column = core, row = thread."}
	for _, e := range []struct {
		symbol  rune
		meaning string
	}{
		{symbolRest, k.rest},
		{symbolConfined, k.rest + ", in a confinement"},
		{symbolReserved, "reserved"},
		{symbolIsolated, "isolated"},
		{symbolOffline, "offline"},
		{symbolClash, "claimed by two"},
	} {
		if drawn[e.symbol] {
			pieces = append(pieces, fmt.Sprintf("%c %s", e.symbol, e.meaning))
		}
	}
	return append(wrapped(separated(pieces, "   "), width), k.ownerLines(width)...)
}

// ownerLines lists the owners with symbol, name and CPUs. Long names and lists are wrapped.
func (k *key) ownerLines(width int) []line {
	nameWidth := 0
	for _, o := range k.owners {
		if n := utf8.RuneCountInString(o.Name); n <= width/2 {
			nameWidth = max(nameWidth, n)
		}
	}
	const indent = 2
	var out []line
	for i, o := range k.owners {
		if o.Name == "" {
			o.Name = "(no name)"
		}
		names := wrap([]string{o.Name}, width-indent)
		for j, name := range names {
			l := text("  ", plain)
			if j == 0 {
				l = text(string(o.Symbol)+" ", ownerColour(i))
			}
			out = append(out, append(l, text(name, plain)...))
		}
		hang := indent + nameWidth + 2
		rest := wrap(k.facts(o), width-hang)
		if len(names) == 1 && utf8.RuneCountInString(o.Name) <= nameWidth {
			last := len(out) - 1
			out[last] = append(out[last].padded(hang), text(rest[0], plain)...)
			rest = rest[1:]
		}
		for _, s := range rest {
			out = append(out, append(line(nil).padded(hang), text(s, plain)...))
		}
	}
	return out
}

// facts returns the tokens that follow an owner's name.
func (k *key) facts(o Owner) []string {
	head := quantity.Count(o.CPUs.Len(), "CPU")
	if o.Confined {
		head = "confined to " + head
	}
	tokens := separated(strings.Split(head, " "), " ")
	if !o.CPUs.IsEmpty() {
		tokens[len(tokens)-1] += ": "
		tokens = append(tokens, separated(strings.Split(o.CPUs.String(), ","), ",")...)
	}
	if missing := o.CPUs.Difference(k.online); !missing.IsEmpty() {
		tokens[len(tokens)-1] += " "
		tokens = append(tokens, "(not ", "online: ")
		tokens = append(tokens, separated(strings.Split(missing.String()+")", ","), ",")...)
	}
	if o.Note != "" {
		tokens[len(tokens)-1] += "; "
		tokens = append(tokens, separated(strings.Fields(o.Note), " ")...)
	}
	return tokens
}
