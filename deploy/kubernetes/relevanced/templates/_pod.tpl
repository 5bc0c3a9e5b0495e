{{- /* The environment of every container. */ -}}
{{- define "relevanced.env" -}}
- name: RELEVANCED_LOG__FORMAT
  value: json
{{- range .Values.secretFiles }}
- name: {{ .variable }}
  value: {{ printf "/etc/relevanced/secrets/%s/%s" .secret .key | quote }}
{{- end }}
{{- range .Values.secretVariables }}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- with .Values.env }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* What every container mounts. */ -}}
{{- define "relevanced.mounts" -}}
- name: config
  mountPath: /etc/relevanced/relevanced.toml
  subPath: relevanced.toml
  readOnly: true
{{- range $index, $file := .Values.secretFiles }}
- name: secret-{{ $index }}
  mountPath: {{ printf "/etc/relevanced/secrets/%s/%s" $file.secret $file.key | quote }}
  subPath: {{ $file.key }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* The volumes of every pod. Arguments: root context, configMap (its name). */ -}}
{{- define "relevanced.volumes" -}}
- name: config
  configMap:
    name: {{ .configMap }}
{{- range $index, $file := .root.Values.secretFiles }}
- name: secret-{{ $index }}
  secret:
    secretName: {{ $file.secret }}
    defaultMode: 0440
{{- end }}
{{- with .root.Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* The user of every pod. */ -}}
{{- define "relevanced.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* What no container may do. */ -}}
{{- define "relevanced.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}
