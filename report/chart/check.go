package chart

import (
	"errors"
	"fmt"
	"math"
)

// ErrEmpty is returned when there is no value to draw.
var ErrEmpty = errors.New("nothing to draw: no series has a value")

// check finds what cannot be drawn.
func (c *Chart) check() error {
	if err := errors.Join(c.X.check("x"), c.Y.check("y")); err != nil {
		return err
	}
	known := 0
	for _, s := range c.Series {
		n, err := s.check(&c.X, &c.Y)
		if err != nil {
			return fmt.Errorf("series %q: %w", s.Name, err)
		}
		known += n
	}
	for _, r := range c.References {
		axis := &c.Y
		if r.Vertical {
			axis = &c.X
		}
		if err := axis.shows(r.Value); err != nil {
			return fmt.Errorf("reference %q: %w", r.Label, err)
		}
	}
	if known == 0 {
		return ErrEmpty
	}
	return nil
}

func (a *Axis) check(name string) error {
	switch {
	case a.Scale != Linear && a.Scale != Logarithmic:
		return fmt.Errorf("%s axis: unknown scale %d", name, a.Scale)
	case a.bounded() && !(a.Least < a.Most) || max(-a.Least, a.Most) > largest:
		return fmt.Errorf("%s axis: values from %g to %g: the first must be less, and both finite", name, a.Least, a.Most)
	case a.bounded() && a.Scale == Logarithmic && a.Least <= 0:
		return fmt.Errorf("%s axis: a logarithmic axis cannot begin at %g", name, a.Least)
	}
	return nil
}

func (a *Axis) bounded() bool { return a.Least != 0 || a.Most != 0 }

// shows reports a value that the axis has no place for.
func (a *Axis) shows(value float64) error {
	switch {
	case math.IsNaN(value) || math.Abs(value) > largest:
		return fmt.Errorf("%g cannot be drawn", value)
	case a.Scale == Logarithmic && value < smallest:
		return fmt.Errorf("%g cannot be drawn on a logarithmic axis", value)
	case a.bounded() && (value < a.Least || value > a.Most):
		return fmt.Errorf("%g is outside the axis, which is from %g to %g", value, a.Least, a.Most)
	}
	return nil
}

// check returns how many values are known.
func (s *Series) check(x, y *Axis) (known int, err error) {
	if err := s.Style.check(); err != nil {
		return 0, err
	}
	for i, p := range s.Points {
		if err := x.shows(p.X); err != nil {
			return 0, fmt.Errorf("point %d: x = %w", i, err)
		}
		if i > 0 && p.X < s.Points[i-1].X {
			return 0, fmt.Errorf("point %d: x = %g is left of the one before, %g", i, p.X, s.Points[i-1].X)
		}
		if math.IsNaN(p.Y) {
			continue
		}
		if err := y.shows(p.Y); err != nil {
			return 0, fmt.Errorf("point %d: y = %w", i, err)
		}
		if s.Error != NoError && !(p.Lower <= p.Y && p.Y <= p.Upper) {
			return 0, fmt.Errorf("point %d: y = %g is not between %g and %g", i, p.Y, p.Lower, p.Upper)
		}
		known++
	}
	return known, nil
}

func (s Style) check() error {
	if s.Colour < 0 || s.Colour >= colours || s.Dash < 0 || s.Dash >= dashes || s.Marker < 0 || s.Marker >= markers {
		return fmt.Errorf("there is no style %+v", s)
	}
	return nil
}
