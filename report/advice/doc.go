// Package advice renders the recommendations of core/advice as text, as an HTML page, and as
// patches for Kubernetes.
//
// Text and page show the same rows ([Container.rows]): the recommendation, its value, its
// confidence interval, and a sentence with the reason. Where there was not enough data, only the
// sentence is shown.
//
// The page has two charts per container. The first shows the CPU time used in windows of every
// length, together with the limits: where the largest usage is below a limit, that limit serves the
// container at that timescale. The second shows the share of throttled periods over the burst, both
// for the recorded order of periods and, with proven bounds, for random order. Its logarithmic axis
// starts at the power of ten below one period of the recording. The page is one file without
// scripts and loads nothing from the network.
//
// A patch is a strategic merge patch of a pod template. It sets the limit for the goal's burst on
// each container, and that burst as the pod's annotation. A recording contains pods but not the
// objects that own them, so comments in the patch explain how to find the owner and apply the
// patch.
package advice
