{{/* The agents' DaemonSets, as a list in JSON. Each has a name, its pool ("" if there are no pools), the
values of its pool over those of agent as agent, hostPID, and the securityContext of its container. No node
is in two of them as far as their nodeSelectors go: each excludes the nodes of the pools before it, and the
first one those of all. */}}
{{- define "pinfold.daemonSets" -}}
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
{{- $pool := dict "name" (printf "%s-agent-%s" (include "pinfold.name" $) $name) "pool" $name "agent" $agent }}
{{- include "pinfold.exclude" (dict "from" $pool "pools" $pools) }}
{{- $pools = append $pools $pool }}
{{- end }}
{{- $rest := dict "name" (print (include "pinfold.name" .) "-agent") "pool" (ternary "default" "" (not (empty $pools))) "agent" (deepCopy $values) }}
{{- include "pinfold.exclude" (dict "from" $rest "pools" $pools) }}
{{- range prepend $pools $rest }}
{{- include "pinfold.rights" (dict "set" . "openshift" $.Values.openshift) }}
{{- end }}
{{- prepend $pools $rest | toJson }}
{{- end }}

{{/* Gives a DaemonSet hostPID and the securityContext of its container. Takes a dict of set and openshift. */}}
{{- define "pinfold.rights" -}}
{{- $agent := .set.agent }}
{{- $cores := contains "core-scheduling" $agent.batchPriority }}
{{- $scheduler := eq "sched_ext" $agent.batchPriority }}
{{- $traces := or $scheduler (gt (float64 $agent.tracePercent) 0.0) }}
{{- $capabilities := dict "drop" (list "ALL") }}
{{- with concat $agent.capabilities (ternary (list "SYS_PTRACE") list $cores) (ternary (list "SYS_NICE") list $scheduler) (ternary (list "BPF" "PERFMON") list $traces) | uniq }}
{{- $_ := set $capabilities "add" . }}
{{- end }}
{{- $context := dict "privileged" $agent.privileged "runAsUser" 0 "runAsGroup" 0 "readOnlyRootFilesystem" true }}
{{- if not $agent.privileged }}
{{- $context = merge $context (dict "allowPrivilegeEscalation" false "capabilities" $capabilities "seccompProfile" (dict "type" "RuntimeDefault")) }}
{{- end }}
{{- with $agent.seLinuxOptions | default (ternary (dict "type" "spc_t") dict .openshift) }}
{{- $_ := set $context "seLinuxOptions" . }}
{{- end }}
{{- $_ := set .set "hostPID" (or $cores $scheduler) }}
{{- $_ := set .set "securityContext" (mustMergeOverwrite $context $agent.containerSecurityContext) }}
{{- end }}

{{/* Not empty if the agents of a pool serve resource claims. */}}
{{- define "pinfold.claims" -}}
{{- range .Values.agent.enabled | ternary (include "pinfold.daemonSets" . | fromJsonArray) list }}
{{- if ne .agent.claims "none" }}{{ .name }}{{ end }}
{{- end }}
{{- end }}

{{/* Not empty if the agents of a pool give CPUs to the pods of all schedulers. */}}
{{- define "pinfold.agentsAllocate" -}}
{{- range .Values.agent.enabled | ternary (include "pinfold.daemonSets" . | fromJsonArray) list }}
{{- if eq .agent.allocator "node" }}{{ .name }}{{ end }}
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
