# Makes a recording (CSV) of counters of cAdvisor: of the answer of Prometheus to the query in
# docs/pinfold.md, of 'promtool query range --format=json', or of /api/v1/export of VictoriaMetrics.
# Figures that the answer does not have are left empty, which means unknown.

def stop($why): error("no recording can be made: \($why)");

# All series of an answer: labels, and points of a time in seconds and a number.
def series:
  if type == "array" then .[] | series
  elif .status == "error" then stop("Prometheus answered: \(.error // .errorType)")
  elif .data.result? then .data.result | series
  elif .value then stop("the answer is about one instant: ask query_range")
  elif .metric then {labels: .metric,
    points: ((if .timestamps then [(.timestamps | map(. / 1000)), .values] | transpose else .values end) | map(select(.[1] != null) | .[1] |= tonumber))}
  else stop("this is no answer of Prometheus with series") end;

# The labels in which some series differ.
def differing: map(.labels) | . as $all | add | keys | map(select(. as $key | $all | map(.[$key]) | unique | length > 1)) | join(", ");
def refuse: stop("\(length) series of \(.[0].metric) are of \(.[0].group): choose one by its \(differing)");

# The series of one metric of one group as one: those of single CPUs are added.
def one:
  if length == 1 then .[0]
  elif any(.labels.cpu | not) or (map(.labels | del(.cpu)) | unique | length) > 1 then refuse
  elif any(.labels.cpu == "total") then map(select(.labels.cpu == "total"))[0]
  else length as $cpus | .[0] + {points: (map(.points[]) | group_by(.[0]) | map(select(length == $cpus) | [.[0][0], (map(.[1]) | add)]))} end;

# The rows of the series of one group.
def rows:
  .[0] as {$group, $name} | group_by(.metric) | map(one | .metric as $metric | .points[] | {at: .[0], ($metric): .[1]})
  | group_by(.at) | map(add | select(.container_cpu_usage_seconds_total)) | range(1; length) as $i | .[$i - 1] as $a | .[$i] as $b
  | def used($counter; $unit): if $a[$counter] and $b[$counter] then ($b[$counter] - $a[$counter]) * $unit | round else null end;
    [used("container_cpu_usage_seconds_total"; 1e9), used("container_cpu_cfs_periods_total"; 1),
     used("container_cpu_cfs_throttled_periods_total"; 1), used("container_cpu_cfs_throttled_seconds_total"; 1e9)]
  | select(all(. == null or . >= 0))
  | (($b.container_spec_cpu_period // 100000) * 1000) as $period
  | [($b.at | floor | todate), $group, $name, (($b.at - $a.at) * 1e9 | round)] + .
    + if $b.container_spec_cpu_quota then [$b.container_spec_cpu_quota * 1000, $period]
      elif $b.kube_pod_container_resource_limits then [($b.kube_pod_container_resource_limits * $period | round), $period]
      elif $b.container_spec_cpu_period then [null, $period] else [null, null] end;

[[., inputs] | series
  | .metric = (.labels.__name__ // stop("a series has no name: ask for the counters themselves, without functions"))
  | .name = (.labels | if .namespace and .pod and .container then "\(.namespace)/\(.pod)/\(.container)" else .name end)
  | .group = (.labels.id // if .name then "/\(.name)" else stop("a series of \(.metric) has no label that names its container") end)]
| . as $all | [group_by([.name, .metric])[] | select(.[0].name and any(.labels.id == null) and any(.labels.id)) | refuse]
| [$all | map(select(.metric != "kube_pod_container_resource_limits")) | group_by(.group)[]
  | . + (.[0].name as $name | $all | map(select(.metric == "kube_pod_container_resource_limits" and .name == $name))) | rows]
| if length == 0 then stop("no container has two points of container_cpu_usage_seconds_total: ask for a longer time") else . end
| ["time", "group", "name", "interval_ns", "usage_ns", "periods", "throttled_periods", "throttled_time_ns", "quota_ns", "period_ns"], .[] | @csv
