{{- define "valkey-operator.image" -}}
{{ .Values.image.registry }}{{ .Values.image.name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- define "valkey-operator.labels" -}}
app.kubernetes.io/name: valkey-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "valkey-operator.selector" -}}
app.kubernetes.io/name: valkey-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
