# Makes a recording (CSV) of counters of cAdvisor: of answers of Prometheus to the query in
# docs/pinfold.md, of 'promtool query range --format=json', or of /api/v1/export of VictoriaMetrics.
# Figures that the answers do not have are left empty, which means unknown.

def stop($why): error("no recording can be made: \($why)");

def usage: "container_cpu_usage_seconds_total";
def limits: "kube_pod_container_resource_limits";
def settings: "container_spec_cpu_quota", "container_spec_cpu_period", limits;

# All series of an answer: labels, and points of a time in seconds and a number. What is no number
# (NaN, infinity) is unknown.
def series:
  if type == "array" then .[] | series
  elif type != "object" then stop("this is no answer of Prometheus with series")
  elif .status == "error" then stop("Prometheus answered: \(.error // .errorType)")
  elif .data.result? then .data.result | series
  elif .value then stop("the answer is about one instant: ask query_range")
  elif .metric then {labels: .metric,
    points: [(if .timestamps then [(.timestamps | map(. / 1000)), .values] | transpose else .values end)[]? | .[1] = (.[1] | tonumber? | select(isnan or isinfinite | not))]}
  else stop("this is no answer of Prometheus with series") end;

# A label of a container, which Prometheus renames if the target has one of that name, too.
def text($name): .["exported_" + $name] // .[$name] // .[$name + "_name"];

# The labels in which some series differ.
def differing: map(.labels) | . as $all | add | keys | map(select(. as $key | $all | map(.[$key]) | unique | length > 1)) | join(", ");
def refuse: stop("\(length) series of \(.[0].metric) are of \(.[0].group): choose one by its \(differing)");

# The points of several series, each once.
def together: .[0] + {points: (map(.points[]) | unique)};

# The series of one metric of one group as one: those of single CPUs are added, and those of a
# setting are one after the other, or agree.
def one:
  if length == 1 then .[0]
  elif all(.labels.cpu) and (map(.labels | del(.cpu)) | unique | length) == 1 then
    if any(.labels.cpu == "total") then map(select(.labels.cpu == "total"))[0]
    else length as $cpus | .[0] + {points: (map(.points[]) | group_by(.[0]) | map(select(length == $cpus) | [.[0][0], (map(.[1]) | add)]))} end
  elif IN(.[0].metric; settings) and (together.points | length == (unique_by(.[0]) | length)) then together
  else refuse end;

# The points of a group: each has the settings that were seen last, in the last five minutes.
def points:
  [foreach (group_by(.at)[] | add) as $now ({};
    reduce (settings | select($now[.])) as $s (.; .[$s] = {at: $now.at, value: $now[$s]});
    . as $last | $now + (reduce (settings | select($last[.] and $last[.].at > $now.at - 300)) as $s ({}; .[$s] = $last[$s].value)))]
  | map(select(.[usage]));

# The rows of the series of one group.
def rows:
  .[0] as {$group, $name} | group_by(.metric) | map(one | .metric as $metric | .points[] | {at: .[0], ($metric): .[1]}) | points
  | range(1; length) as $i | .[$i - 1] as $a | .[$i] as $b
  | def used($counter; $unit): if $a[$counter] and $b[$counter] then ($b[$counter] - $a[$counter]) * $unit | round else null end;
    [used(usage; 1e9), used("container_cpu_cfs_periods_total"; 1),
     used("container_cpu_cfs_throttled_periods_total"; 1), used("container_cpu_cfs_throttled_seconds_total"; 1e9)]
  | select(all(. == null or . >= 0))
  | (($b.container_spec_cpu_period // 100000) * 1000) as $period
  | [($b.at | floor | todate), $group, $name, (($b.at - $a.at) * 1e9 | round)] + .
    + if $b.container_spec_cpu_quota > 0 then [$b.container_spec_cpu_quota * 1000, $period]
      elif $b[limits] then [($b[limits] * $period | round), $period]
      elif $b.container_spec_cpu_quota or $b.container_spec_cpu_period then [null, $period] else [null, null] end;

[[., inputs] | series]
| if length == 0 then stop("the answer has no series: are the labels in the query right?") else . end
| group_by(.labels) | map(together
  | .metric = (.labels.__name__ // stop("a series has no name: ask for the counters themselves, without functions"))
  | select(.metric != limits or (.labels.resource // "cpu") == "cpu")
  | .name = (.labels | if text("namespace") and text("pod") and text("container") then "\(text("namespace"))/\(text("pod"))/\(text("container"))" else .name end)
  | .group = (.labels.id // if .name then "/\(.name)" else stop("a series of \(.metric) has no label that names its container: keep id, or namespace, pod and container") end))
| if any(.metric == usage) then . else stop("no series is \(usage): ask for that counter itself, not for a rule made of it") end
| . as $all | [group_by([.name, .metric])[] | select(.[0].name and any(.labels.id == null) and any(.labels.id)) | refuse]
| [$all | map(select(.metric != limits)) | group_by(.group)[]
  | . + (.[0].name as $name | $all | map(select(.metric == limits and .name == $name))) | rows]
| if length == 0 then stop("no container has two points of \(usage): ask for a longer time") else . end
| ["time", "group", "name", "interval_ns", "usage_ns", "periods", "throttled_periods", "throttled_time_ns", "quota_ns", "period_ns"], .[] | @csv
