package advice

// Node says how many containers alike fit on a node.
type Node struct {
	Finding
	CPUs         float64 `json:"nodeCPUs"`
	LimitCPUs    float64 `json:"limitCPUs"` // of each container
	BurstPercent float64 `json:"burstPercent"`
	// ByLimits is how many the sum of the limits allows.
	ByLimits Density `json:"byLimits"`
	// Fits is the largest number that reaches the goal. Low and High are the numbers of which it
	// is sure, by two standard errors, that they do, and not excluded that they do.
	Fits Density `json:"fits"`
	Low  int     `json:"lowContainers"`
	High int     `json:"highContainers"`
	// Halves are the probabilities of as many copies of the first half of the recording alone,
	// and of the second.
	Halves [2]Estimate `json:"halvesProbabilityWCET1"`
	// LessDensity means that fewer fit with burst than their limits allow.
	LessDensity bool `json:"lessDensityBeforeBurst"`
	// SafeUtilisation is the average demand, over the limit, up to which burst reaches the goal
	// with as many containers as the limits allow; Utilisation is what they have.
	Utilisation     float64 `json:"utilisation"`
	SafeUtilisation float64 `json:"safeUtilisation"`
	// Most is set when more containers were not tried.
	Most bool `json:"mostThatWereTried,omitempty"`
	// Warnings are the simulator's, and what else to bear in mind.
	Warnings []string `json:"warnings,omitempty"`
}

// Density is a number of containers on the node, with the predicted outcome.
type Density struct {
	Containers int `json:"containers"`
	// Load is the average demand of all over the node's CPUs.
	Load             float64  `json:"load"`
	ProbabilityWCET1 Estimate `json:"probabilityWCET1"`
	ExpectedWCET     Estimate `json:"expectedWCET"`
	ThrottleRatio    Estimate `json:"throttleRatio"` // of each container
}

// Estimate is a mean with its standard error.
type Estimate struct {
	Value         float64 `json:"value"`
	StandardError float64 `json:"standardError"`
}
