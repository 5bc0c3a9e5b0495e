{{- define "relevanced.name" -}}
{{- if contains "relevanced" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-relevanced" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "relevanced.selector" -}}
app.kubernetes.io/name: relevanced
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "relevanced.labels" -}}
{{ include "relevanced.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "relevanced.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "relevanced.name" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}
