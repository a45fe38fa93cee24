package autoscalers

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// TestVPA asks the recommender of the Vertical Pod Autoscaler, with its defaults, about the usage of
// recorded programs under a limit (testdata/usage.json, the CPUs of every 30 s), and compares its targets
// with testdata/targets.json, which test/verdict replays. PINFOLD_UPDATE=1 writes that file.
func TestVPA(t *testing.T) {
	const file, every = "testdata/targets.json", 30 * time.Second
	usage, targets := map[string][]float64{}, map[string]float64{}
	text, err := os.ReadFile("testdata/usage.json")
	if err == nil {
		err = json.Unmarshal(text, &usage)
	}
	if err != nil {
		t.Fatal(err)
	}
	defaults := config.DefaultRecommenderConfig()
	recommender := logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: defaults.SafetyMarginFraction, PodMinCPUMillicores: defaults.PodMinCPUMillicores,
		TargetCPUPercentile: defaults.TargetCPUPercentile, LowerBoundCPUPercentile: defaults.LowerBoundCPUPercentile,
		UpperBoundCPUPercentile: defaults.UpperBoundCPUPercentile, ConfidenceIntervalCPU: defaults.ConfidenceIntervalCPU,
	})
	for name, cpus := range usage {
		state, at := model.NewAggregateContainerState(), time.Unix(1_800_000_000, 0)
		for _, c := range cpus {
			state.AddSample(&model.ContainerUsageSample{MeasureStart: at, Usage: model.CPUAmountFromCores(c), Resource: model.ResourceCPU})
			at = at.Add(every)
		}
		all := recommender.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"app": state})
		targets[name] = model.CoresFromCPUAmount(all["app"].Target[model.ResourceCPU])
	}
	got, err := json.MarshalIndent(targets, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if got = append(got, '\n'); os.Getenv("PINFOLD_UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != string(got) {
		t.Errorf("the recommendations are not those of %s, %v: run this test with PINFOLD_UPDATE=1", file, err)
	}
}
