package api

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/json"
)

// decodeJSON reads one JSON value. Names of fields are case-sensitive.
func decodeJSON(text string, into any, strict ...json.StrictOption) error {
	strictErrors, err := json.UnmarshalStrict([]byte(text), into, strict...)
	var mistyped *stdjson.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return fmt.Errorf("%s: it must not be a JSON %s", mistyped.Field, mistyped.Value)
	case errors.As(err, &mistyped):
		return fmt.Errorf("it must not be a JSON %s", mistyped.Value)
	case err != nil:
		if syntax, _ := json.SyntaxErrorOffset(err); syntax {
			return fmt.Errorf("it is not JSON, or was cut short: %w", err)
		}
		return err
	}
	return joined(strictErrors...)
}

// joined makes one error of several, on one line.
func joined(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}
