// Package chart tests the Helm chart in deploy/chart with Helm 3 and Helm 4: what it renders for
// all of its values, what it says about bad ones, its README.md, the plain manifests that are
// rendered from it, and what a real API server makes of it. It needs no privileges; "make" builds
// the programs.
//
// Each archive in testdata has values and how they change what is rendered, as a diff to the
// defaults.
package chart
