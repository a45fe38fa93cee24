{{/* The agents' DaemonSets, as a list in JSON. Each has a name, its pool ("" if there are no pools), and
as agent the values of its pool over those of agent. No node is in two of them as far as their
nodeSelectors go: each excludes the nodes of the pools before it, and the first one those of all. */}}
{{- define "pinfold.daemonSets" -}}
{{- $prefix := include "pinfold.name" . }}
{{- $values := omit .Values.agent "pools" }}
{{- $pools := list }}
{{- range $name, $own := .Values.agent.pools }}
{{- $agent := mustMergeOverwrite (deepCopy $values) (deepCopy $own) }}
{{- if and (dig "image" "tag" "" $own) (not (dig "image" "digest" "" $own)) }}
{{- $_ := set $agent.image "digest" "" }}
{{- end }}
{{- if not $own.nodeSelector }}
{{- $_ := set $agent.nodeSelector "pinfold.dev/pool" $name }}
{{- end }}
{{- $pool := dict "name" (print $prefix "-agent-" $name) "pool" $name "agent" $agent }}
{{- include "pinfold.exclude" (dict "from" $pool "pools" $pools) }}
{{- $pools = append $pools $pool }}
{{- end }}
{{- $rest := dict "name" (print $prefix "-agent") "pool" (ternary "default" "" (not (empty $pools))) "agent" (deepCopy $values) }}
{{- include "pinfold.exclude" (dict "from" $rest "pools" $pools) }}
{{- prepend $pools $rest | toJson }}
{{- end }}

{{/* Not empty if the agents of all pools only observe. */}}
{{- define "pinfold.observes" -}}
{{- $modes := list }}
{{- range .Values.agent.enabled | ternary (include "pinfold.daemonSets" . | fromJsonArray) list }}
{{- $modes = append $modes .agent.mode }}
{{- end }}
{{- if eq (uniq $modes | join " ") "observe" }}true{{ end }}
{{- end }}

{{/* Not empty if the agents of a pool serve resource claims. */}}
{{- define "pinfold.claims" -}}
{{- range .Values.agent.enabled | ternary (include "pinfold.daemonSets" . | fromJsonArray) list }}
{{- if ne .agent.claims "none" }}{{ .name }}{{ end }}
{{- end }}
{{- end }}

{{/* Changes the affinity of a DaemonSet so that it does not select nodes of pools. Takes a dict of from and
pools. A node is outside of a pool if it lacks one of the pool's labels: one term of the affinity each. */}}
{{- define "pinfold.exclude" -}}
{{- $from := .from }}
{{- $selector := $from.agent.nodeSelector }}
{{- range $pool := .pools }}
{{- $apart := false }}
{{- $labels := dict }}
{{- range $key, $value := $pool.agent.nodeSelector }}
{{- if not (hasKey $selector $key) }}
{{- $_ := set $labels $key $value }}
{{- else if ne (get $selector $key) $value }}
{{- $apart = true }}
{{- end }}
{{- end }}
{{- if not (or $apart $labels) }}
{{- fail (printf "agent.pools.%s.nodeSelector selects all nodes of the pool %s, too: add a label that tells its nodes apart" $pool.pool $from.pool) }}
{{- end }}
{{- if not $apart }}
{{- $terms := list }}
{{- range $term := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) $from.agent.affinity }}
{{- range $key, $value := $labels }}
{{- $expression := dict "key" $key "operator" "NotIn" "values" (list $value) }}
{{- $terms = append $terms (merge (dict "matchExpressions" (append ($term.matchExpressions | default list) $expression)) $term) }}
{{- end }}
{{- end }}
{{- $required := dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) }}
{{- $_ := set $from.agent "affinity" (mustMergeOverwrite $from.agent.affinity $required) }}
{{- end }}
{{- end }}
{{- end }}
