{{- define "relevanced.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains "relevanced" .Release.Name -}}
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
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "relevanced.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- define "relevanced.configMap" -}}
{{- .Values.existingConfigMap | default (include "relevanced.name" .) -}}
{{- end -}}

{{- /* The label `job` of this release's series. */ -}}
{{- define "relevanced.job" -}}
{{- default .Release.Name .Values.prometheusRule.job -}}
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
