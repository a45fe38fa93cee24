// Package advice shows what package core/advice found out: as text, as a page, and as
// patches for Kubernetes.
//
// Text and page show the same rows ([Container.rows]): a piece of advice, its value, its
// confidence interval, and the sentence that says why. Where there was not enough data, that
// sentence stands alone.
//
// The page has two charts for each container. One is the CPU time used in windows of every
// length, beside the limits: where the largest falls below a limit, that limit serves the
// container at that timescale. The other is the share of throttled periods over the burst: as
// the recording has them, and when the same periods come in any order, with proven bounds.
// The axis of shares is logarithmic and begins at the power of ten below one period of the
// recording. The page is one file, needs no network and no script, and fetches nothing.
//
// A patch is a strategic merge patch of a pod template: the limit that goes with the goal's
// burst for each container, and that burst as the pod's annotation. A recording knows pods,
// and not what made them, so comments say how to find that and how to apply the patch.
package advice
