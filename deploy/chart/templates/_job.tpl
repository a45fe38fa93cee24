{{/* Metadata of an object of a Job that Helm runs. Takes a dict of root, job, hook and, for what the Job needs,
weight; and for an object of the whole cluster, cluster. */}}
{{- define "pinfold.jobMetadata" -}}
{{- if not .cluster -}}
namespace: {{ .root.Release.Namespace }}
{{- end }}
labels:
  {{- include "pinfold.labels" (dict "root" .root "name" (print "pinfold-" .job)) | nindent 2 }}
annotations:
  helm.sh/hook: {{ .hook }}
  {{- with .weight }}
  helm.sh/hook-weight: {{ . | quote }}
  {{- end }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* A Job that Helm runs, with its service account and rights. Takes a dict of root, job (the end of its
names), hook, rules, args, and of its pod: hostNetwork, ids, nodeSelector and tolerations. */}}
{{- define "pinfold.job" -}}
{{- $name := printf "%s-%s" (include "pinfold.name" .root) .job }}
{{- $needed := include "pinfold.jobMetadata" (merge (dict "weight" "-1") .) }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  {{- $needed | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: pinfold:{{ .job }}
  {{- $needed | nindent 2 }}
rules:
{{ toYaml .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: pinfold:{{ .job }}
  {{- $needed | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: pinfold:{{ .job }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  {{- include "pinfold.jobMetadata" . | nindent 2 }}
spec:
  backoffLimit: 0 # its message says what to do; another attempt would only wait again
  template:
    metadata:
      labels:
        {{- include "pinfold.podLabels" (dict "root" .root "name" (print "pinfold-" .job)) | nindent 8 }}
      annotations:
        pinfold.dev/without-agent: "true" # its node may have none
    spec:
      serviceAccountName: {{ $name }}
      restartPolicy: Never
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
      {{- end }}
      {{- with .nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .tolerations }}
      tolerations:
        {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- if .hostNetwork }}
      hostNetwork: true # to reach the API server as the component does
      {{- end }}
      securityContext:
        {{- merge (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) (ternary (dict "runAsUser" 65532 "runAsGroup" 65532) dict .ids) | toYaml | nindent 8 }}
      containers:
      - name: {{ .job }}
        image: {{ include "pinfold.image" (dict "root" .root "image" .root.Values.agent.image) }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args:
        {{- toYaml .args | nindent 8 }}
        terminationMessagePolicy: FallbackToLogsOnError
        {{- with include "pinfold.apiServer" .root | trim }}
        env:
        {{- . | nindent 8 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
          readOnlyRootFilesystem: true
        resources:
          requests: {cpu: 10m, memory: 32Mi}
{{- end }}
