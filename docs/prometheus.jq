# Makes a recording (CSV) of the answer of Prometheus to the query in docs/pinfold.md.
[.data.result[] | .metric as $m | "\($m.namespace)/\($m.pod)/\($m.container)" as $name
  | .values[] | {name: $name, group: ($m.id // "/\($name)"), at: .[0], ($m.__name__): (.[1] | tonumber)}]
| ["time", "group", "name", "interval_ns", "usage_ns", "periods", "throttled_periods", "throttled_time_ns", "quota_ns", "period_ns"],
  (group_by(.group)[] | group_by(.at) | map(add) | range(1; length) as $i | .[$i - 1] as $a | .[$i] as $b
  | def used($counter; $unit): if $a[$counter] and $b[$counter] then ($b[$counter] - $a[$counter]) * $unit | round else 0 end;
    [used("container_cpu_usage_seconds_total"; 1e9), used("container_cpu_cfs_periods_total"; 1),
     used("container_cpu_cfs_throttled_periods_total"; 1), used("container_cpu_cfs_throttled_seconds_total"; 1e9)]
  | select(min >= 0)
  | [($b.at | floor | todate), $b.group, $b.name, (($b.at - $a.at) * 1e9 | round)] + .
    + [if $b.container_spec_cpu_quota then $b.container_spec_cpu_quota * 1000 else "" end, ($b.container_spec_cpu_period // 100000) * 1000])
| @csv
