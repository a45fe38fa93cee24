package allocate

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/api"
)

// A pod whose requests do not cover the CPUs that it has borrows them. Pinfold's scheduler counts limits,
// but others count requests only, and may bind pods to the node that need what is borrowed.

// borrows reports whether schedulers count less than a pod has, or asks for.
func borrows(pod *corev1.Pod, has api.Allocation) bool {
	if len(has.Claims) > 0 {
		return false
	}
	intent, err := api.Parse(pod)
	return err != nil || !api.Covers(&intent.Ask) || has.Holds(pod) != nil
}

// borrowers returns the places of the pods that borrow CPUs, the latest decision first.
func (c *Controller) borrowers(n node) (places []int) {
	for _, at := range c.byRank(n.Round) {
		s := &n.Pods[at]
		if a, has := c.allocated[s.Object.UID]; has && !s.Departed && len(c.claims[s.Object.UID].Containers) > 0 && borrows(s.Object, a) {
			places = append(places, at)
		}
	}
	return places
}

// withBorrowed tries to allocate CPUs to a pod. If that fails and the pod does not borrow, others give
// back what they have borrowed, as far as it needs that, and as far as it succeeds then.
func (c *Controller) withBorrowed(n node, pod types.UID, borrows bool, try func() error) error {
	err := try()
	if err == nil || borrows {
		return err
	}
	places := c.borrowers(n)
	places = slices.DeleteFunc(places, func(at int) bool { return n.Pods[at].Object.UID == pod })
	for _, at := range places {
		n.books.Add(n.Pods[at].Plan.Claim) // without CPUs
	}
	helps := len(places) > 0 && try() == nil
	for _, at := range places {
		n.books.Add(c.claims[n.Pods[at].Object.UID])
	}
	if !helps {
		return err
	}
	for _, at := range places {
		c.giveBack(n, at)
		if err = try(); err == nil {
			break
		}
	}
	return err
}

// settle takes back what pods have borrowed while others request it as a part of the shared CPUs.
func (c *Controller) settle(n node) {
	for _, at := range c.borrowers(n) {
		if len(n.books.Overflow()) == 0 {
			return
		}
		c.giveBack(n, at)
	}
}

// giveBack takes its CPUs from a pod that borrows them.
func (c *Controller) giveBack(n node, at int) {
	s := &n.Pods[at]
	uid := s.Object.UID
	c.lose(s, c.allocated[uid], errors.New("it requests fewer, and other pods request these: create it again with requests.cpu as large as limits.cpu"))
	c.takeBack(uid)
	c.changed = true
	c.read(n.Round, s)
	n.books.Add(c.claims[uid])
}
