package scheduler

// DefaultConfiguration is the KubeSchedulerConfiguration of a cluster whose
// default scheduler is this one, in YAML.
//
// Filter names the plugins that look at the node alone first, then this one, then
// (by multiPoint) all others: so a tainted node is told to be tainted, and a node
// whose CPUs are taken is told so in our words and not as "Insufficient cpu". The
// weight lets a better placement outvote the other plugins, whose weights sum to
// 12, where there are few classes of quality to tell apart; see NormalizeScore.
//
// The lease is kube-scheduler's own, so that of this scheduler and a stock
// kube-scheduler only one is active at a time.
const DefaultConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceLock: leases
  resourceNamespace: kube-system
  resourceName: kube-scheduler
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Pinfold
        weight: 20
    filter:
      enabled:
      - name: NodeUnschedulable
      - name: NodeName
      - name: TaintToleration
      - name: NodeAffinity
      - name: Pinfold
    bind:
      disabled:
      - name: DefaultBinder
  pluginConfig:
  - name: Pinfold
    args:
      apiVersion: pinfold.dev/v1alpha1
      kind: PinfoldArgs
      scoringStrategy: LeastAllocated
      minSharedCPUs: 1
      agentGracePeriod: 40s
      agentLeaseNamespace: pinfold-system
`
