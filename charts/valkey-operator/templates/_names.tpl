{{- define "valkey-operator.image" -}}
{{ with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- define "valkey-operator.labels" -}}
app.kubernetes.io/name: valkey-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "valkey-operator.selector" -}}
app.kubernetes.io/name: valkey-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* Nobody needs another user; a pod that asked for more would be refused where Pod Security is at its strictest. */ -}}
{{- define "valkey-operator.pod-security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "valkey-operator.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Binds a role to the operator. Takes the root, the kind of the role, its name, the namespace of a Role, and with a
       ClusterRole the only namespaces that are looked after. */ -}}
{{- define "valkey-operator.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels: {{- include "valkey-operator.labels" .root | nindent 4 }}
  {{- if eq .kind "ClusterRole" }}
  annotations:
    # Read when another one of this operator is installed: none for the same namespaces.
    valkey.io/namespaces: {{ join "," .only | default "*" | quote }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: valkey-operator
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}

{{- /* Not the operator's: its Service and its budget must not count the pod of `helm test`. */ -}}
{{- define "valkey-operator.test-labels" -}}
app.kubernetes.io/name: valkey-operator-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The label of every pod that the operator has made. */ -}}
{{- define "valkey-operator.made" -}}
app.kubernetes.io/managed-by: valkey-operator
{{- end }}

{{- /* Pods with a sidecar, in the namespaces that the operator looks after. */ -}}
{{- define "valkey-operator.sidecars" -}}
- podSelector:
    matchLabels: {{- include "valkey-operator.made" . | nindent 6 }}
  {{- if .Values.watch.namespaces }}
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{- toYaml .Values.watch.namespaces | nindent 10 }}
  {{- else }}
  namespaceSelector: {}
  {{- end }}
{{- end }}
