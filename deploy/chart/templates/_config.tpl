{{/* The scheduler's configuration: the chart's own, merged into scheduler.config. */}}
{{- define "pinfold.schedulerConfiguration" -}}
{{- if .Values.scheduler.config }}
{{- include "pinfold.mergedConfiguration" . }}
{{- else }}
{{- include "pinfold.ownConfiguration" . }}
{{- end }}
{{- end }}

{{- define "pinfold.mergedConfiguration" -}}
{{- $own := include "pinfold.ownConfiguration" . | fromYaml }}
{{- $config := deepCopy .Values.scheduler.config }}
{{- if and (dig "clientConnection" "kubeconfig" "" $config) (gt (int .Values.scheduler.replicas) 0) (not .Values.scheduler.extraVolumeMounts) }}
{{- fail "scheduler.config.clientConnection.kubeconfig is a file that the scheduler's pods do not have: remove it, and they use their service account; or mount it with scheduler.extraVolumes and scheduler.extraVolumeMounts" }}
{{- end }}
{{- range $config.extenders }}
{{- if .bindVerb }}
{{- fail (printf "scheduler.config: the extender %s binds pods, which would not get their CPUs: remove its bindVerb" .urlPrefix) }}
{{- end }}
{{- end }}
{{- $chart := first $own.profiles }}
{{- $profiles := list }}
{{- $names := list }}
{{- range $config.profiles }}
{{- $name := .schedulerName | default $chart.schedulerName }}
{{- if has $name $names }}
{{- fail (printf "scheduler.config has two profiles with the schedulerName %s: remove one, or give it another name" $name) }}
{{- end }}
{{- if and (eq $name "default-scheduler") (eq $.Values.scheduler.mode "secondary") }}
{{- fail "scheduler.config has a profile default-scheduler, which is the cluster's other scheduler: remove its schedulerName, or set scheduler.mode=default to replace that scheduler" }}
{{- end }}
{{- $names = append $names $name }}
{{- $profiles = append $profiles (include "pinfold.profile" (dict "name" $name "given" . "chart" $chart) | fromJson) }}
{{- end }}
{{- if not (has $chart.schedulerName $names) }}
{{- $profiles = append $profiles $chart }}
{{- end }}
{{- mustMergeOverwrite $config $own (dict "profiles" $profiles) | toYaml }}
{{- end }}

{{/* A profile of scheduler.config with the plugin, in JSON. Takes a dict of its name, the profile as given,
and the profile of the chart. The plugin has one configuration, that of the values. */}}
{{- define "pinfold.profile" -}}
{{- $where := printf "scheduler.config: profile %s" .name }}
{{- $plugins := .given.plugins | default dict }}
{{- $multiPoint := $plugins.multiPoint | default dict }}
{{- $own := first .chart.plugins.multiPoint.enabled }}
{{- range $point, $set := $plugins }}
{{- range $set.disabled }}
{{- if or (eq .name "Pinfold") (and (eq .name "*") (has $point (list "preFilter" "filter" "score" "reserve" "bind"))) }}
{{- fail (printf "%s disables %s at %s, and so Pinfold: name only other plugins there" $where .name $point) }}
{{- end }}
{{- end }}
{{- range $set.enabled }}
{{- if and (eq $point "bind") (ne .name "Pinfold") }}
{{- fail (printf "%s enables %s at bind, by which pods would not get their CPUs: remove it there" $where .name) }}
{{- end }}
{{- if and (eq .name "Pinfold") .weight (ne (int .weight) (int $own.weight)) }}
{{- fail (printf "%s gives Pinfold the weight %v: remove it there, and set scheduler.weight" $where .weight) }}
{{- end }}
{{- end }}
{{- end }}
{{- $args := (first .chart.pluginConfig).args }}
{{- range .given.pluginConfig }}
{{- if eq .name "Pinfold" }}
{{- range $key, $value := .args }}
{{- $chart := get $args $key | default false }}
{{- if ne (toJson $value) (toJson $chart) }}
{{- fail (printf "%s sets %s of Pinfold to %s, and the chart's values to %s: remove it there, and set the chart's value" $where $key (toJson $value) (toJson $chart)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $filter := $plugins.filter | default dict }}
{{- $filtering := include "pinfold.names" $filter.enabled | fromJsonArray }}
{{- $enabled := include "pinfold.names" $multiPoint.enabled | fromJsonArray }}
{{- $disabled := include "pinfold.names" $multiPoint.disabled | fromJsonArray }}
{{- $not := include "pinfold.names" $filter.disabled | fromJsonArray }}
{{- /* The order of filters holds for those that the profile has. */}}
{{- $filters := list }}
{{- range .chart.plugins.filter.enabled }}
{{- $stays := or (has .name $enabled) (not (or (has .name $disabled) (has "*" $disabled))) }}
{{- if or (eq .name "Pinfold") (has .name $filtering) (and $stays (not (has .name $not))) }}
{{- $filters = append $filters . }}
{{- end }}
{{- end }}
{{- $merged := dict
      "multiPoint" (dict "enabled" (append (include "pinfold.others" (dict "of" $multiPoint.enabled "than" (list $own)) | fromJsonArray) $own))
      "filter" (dict "enabled" (concat $filters (include "pinfold.others" (dict "of" $filter.enabled "than" $filters) | fromJsonArray)))
      "bind" (dict "disabled" (concat .chart.plugins.bind.disabled (include "pinfold.others" (dict "of" (dig "bind" "disabled" list $plugins) "than" .chart.plugins.bind.disabled) | fromJsonArray))) }}
{{- $config := append (include "pinfold.others" (dict "of" .given.pluginConfig "than" .chart.pluginConfig) | fromJsonArray) (first .chart.pluginConfig) }}
{{- mustMergeOverwrite (deepCopy .given) (dict "schedulerName" .name "plugins" $merged "pluginConfig" $config) | toJson }}
{{- end }}

{{/* Those plugins of a list whose names another list does not have, in JSON. Takes a dict of of and than. */}}
{{- define "pinfold.others" -}}
{{- $names := include "pinfold.names" .than | fromJsonArray }}
{{- $others := list }}
{{- range .of }}
{{- if not (has .name $names) }}
{{- $others = append $others . }}
{{- end }}
{{- end }}
{{- toJson $others }}
{{- end }}

{{/* The names of plugins, as a list in JSON. */}}
{{- define "pinfold.names" -}}
{{- $names := list }}
{{- range . }}
{{- $names = append $names .name }}
{{- end }}
{{- toJson $names }}
{{- end }}
