package api

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The kernel's bounds of a CFS period (kernel/sched/core.c, max_cfs_quota_period and
// min_cfs_quota_period).
const (
	minPeriod = time.Millisecond
	maxPeriod = time.Second
)

// parsePeriod reads the CFS period of a pod, 0 when it names none.
func parsePeriod(pod *corev1.Pod) (time.Duration, Word, error) {
	return look(pod, annotation(readPeriod, CPUPeriodAnnotation))
}

func readPeriod(text string) (time.Duration, error) {
	period, err := time.ParseDuration(text)
	if err != nil {
		period = 0
	}
	return period, checkPeriod(period)
}

func checkPeriod(period time.Duration) error {
	if period < minPeriod || period > maxPeriod {
		return errors.New(`it must be a duration from "1ms" to "1s", such as "20ms"`)
	}
	if period%time.Microsecond != 0 {
		return errors.New("it must be a whole number of microseconds, as the kernel counts")
	}
	return nil
}
