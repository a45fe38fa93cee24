// Package demand draws the CPU time that a control group wants in each period.
//
// Amounts are multiples of the group's quota: 1 is all that one period gives. A group
// whose mean demand is u is said to have utilisation u.
package demand
