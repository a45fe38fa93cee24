{{/* What the names of objects in the release's namespace begin with. Labels have pinfold whatever it is: by them
objects are found. */}}
{{- define "pinfold.name" -}}
{{- .Values.nameOverride | default "pinfold" }}
{{- end }}

{{/* Labels of an object. Takes a dict of root and name. */}}
{{- define "pinfold.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: pinfold
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The reference of an image. Takes a dict of root and image. The chart of a release has annotations with the digests
of its images, which count unless a value names a digest or a tag. */}}
{{- define "pinfold.image" -}}
{{- $registry := required "image.registry is not set: set it to the registry that has the images, such as --set image.registry=registry.example.com/pinfold" .root.Values.image.registry -}}
{{- $tag := coalesce .image.tag .root.Values.image.tag }}
{{- $digest := .image.digest }}
{{- if not (or $digest $tag (empty .root.Chart.Annotations)) }}
{{- $digest = index .root.Chart.Annotations (print "pinfold.dev/digest-of-" .image.repository) }}
{{- end }}
{{- if $digest -}}
{{ $registry }}/{{ .image.repository }}@{{ $digest }}
{{- else -}}
{{ $registry }}/{{ .image.repository }}:{{ $tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Where the API server is, as environment variables of a container. */}}
{{- define "pinfold.apiServer" -}}
{{- with .Values.apiServer.host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ . | quote }}}
{{- end }}
{{- with .Values.apiServer.port }}
- {name: KUBERNETES_SERVICE_PORT, value: {{ . | quote }}}
{{- end }}
{{- end }}

{{/* What tells the names of objects outside of the release's namespace from those of other releases:
nothing for the release pinfold. */}}
{{- define "pinfold.suffix" -}}
{{- if ne .Release.Name "pinfold" }}-{{ .Release.Name }}{{ end }}
{{- end }}

{{/* The namespace of the agents' leases. */}}
{{- define "pinfold.agentLeaseNamespace" -}}
{{- .Values.agent.leaseNamespace | default .Release.Namespace }}
{{- end }}

{{/* The priority class of a component's pods. Takes a dict of root, name and class. */}}
{{- define "pinfold.priorityClassName" -}}
{{- if .root.Values.priorityClasses.create }}{{ .name }}{{ include "pinfold.suffix" .root }}{{ else }}{{ .class }}{{ end }}
{{- end }}

{{/* The lease by which the scheduler's replicas elect a leader. */}}
{{- define "pinfold.leaseNamespace" -}}
{{- ternary "kube-system" .Release.Namespace (eq .Values.scheduler.mode "default") }}
{{- end }}
{{- define "pinfold.leaseName" -}}
{{- ternary "kube-scheduler" .Values.scheduler.name (eq .Values.scheduler.mode "default") }}
{{- end }}

{{/* The schedulerName of the scheduler's pods. */}}
{{- define "pinfold.schedulerName" -}}
{{- ternary "default-scheduler" .Values.scheduler.name (eq .Values.scheduler.mode "default") }}
{{- end }}

{{/* Who has the scheduler's rights. Takes a dict of root and, for a scheduler that may be a static pod, static. */}}
{{- define "pinfold.schedulerSubjects" -}}
- kind: ServiceAccount
  name: {{ .root.Values.scheduler.serviceAccount.name }}
  namespace: {{ .root.Release.Namespace }}
{{- if .static }}
- kind: User
  name: system:kube-scheduler
  apiGroup: rbac.authorization.k8s.io
{{- end }}
{{- end }}

{{/* The seconds of a duration, such as 1m0.5s. */}}
{{- define "pinfold.seconds" -}}
{{- $sum := 0.0 }}
{{- range $part := regexFindAll "[0-9.]+[a-z]+" . -1 }}
{{- $unit := regexFind "[a-z]+" $part }}
{{- $sum = addf $sum (mulf (trimSuffix $unit $part | float64) (get (dict "us" 0.000001 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) }}
{{- end }}
{{- $sum }}
{{- end }}
