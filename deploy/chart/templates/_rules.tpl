{{/* The rules of a file, with the values of monitoring.prometheusRule. Takes a dict of root and file. */}}
{{- define "pinfold.rules" -}}
{{- $values := .root.Values.monitoring.prometheusRule }}
{{- $rules := .root.Files.Get .file | replace `=~"pinfold-agent(` (printf `=~"%s-agent(` (include "pinfold.name" .root)) }}
{{- with $values.runbookBase }}
{{- $rules = replace "runbook_url: docs/" (printf "runbook_url: %s/docs/" .) $rules }}
{{- end }}
{{- /* What stands before each threshold. */}}
{{- range $name, $before := dict
      "throttledRatio" `cpu_throttled:ratio >`
      "utilizationRatio" `cpu_utilization:ratio <`
      "lateSamplesRatio" `sampler_samples_total\[5m\]\) >`
      "missingAgents" `0 \* kube_daemonset_status_desired_number_scheduled\{daemonset=~"[^"]+"\}\n +\) >`
      "waitSeconds" `longest_wait_seconds\{[^}]+\}\) >`
      "silentAgents" `expr: max\(pinfold_scheduler_agents\{[^}]+\}\) >`
      "fleetSilentAgents" `expr: \|\n +max\(sum by \(instance\) \(pinfold_scheduler_agents\{[^}]+\}\)\) >`
      "fleetSilentRatio" `/ max\(sum by \(instance\) \(pinfold_scheduler_agents\{[^}]+\}\)\) >` }}
{{- $rules = regexReplaceAll (printf "(%s) [0-9.]+" $before) $rules (printf "${1} %v" (get $values.thresholds $name)) }}
{{- end }}
{{- if $values.alerts }}
{{- $groups := list }}
{{- range $group := ($rules | fromYaml).groups }}
{{- $kept := list }}
{{- range $rule := $group.rules }}
{{- $own := dig ($rule.alert | default "") dict $values.alerts }}
{{- with $own.for }}
{{- $_ := set $rule "for" . }}
{{- end }}
{{- with $own.severity }}
{{- $_ := set $rule.labels "severity" . }}
{{- end }}
{{- if dig "enabled" true $own }}
{{- $kept = append $kept $rule }}
{{- end }}
{{- end }}
{{- if $kept }}
{{- $groups = append $groups (dict "name" $group.name "rules" $kept) }}
{{- end }}
{{- end }}
{{- $rules = dict "groups" $groups | toYaml }}
{{- end }}
{{- trim $rules }}
{{- end }}
