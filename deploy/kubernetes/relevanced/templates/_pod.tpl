{{- /* "true" where a role uses the secret of a variable: only workers log in to Kafka and to the registry. Arguments: role,
       variable. */ -}}
{{- define "relevanced.uses" -}}
{{- $ofWorkers := or (contains "RELEVANCED_KAFKA__" .variable) (contains "RELEVANCED_REGISTRY__" .variable) -}}
{{- if or (eq .role "worker") (not $ofWorkers) -}}
true
{{- end -}}
{{- end -}}

{{- /* The environment of every container. Arguments: root context, role. */ -}}
{{- define "relevanced.env" -}}
{{- $role := .role -}}
- name: RELEVANCED_LOG__FORMAT
  value: json
{{- range .root.Values.secretFiles }}
- name: {{ .variable }}
  value: {{ printf "/etc/relevanced/secrets/%s/%s" .secret .key | quote }}
{{- end }}
{{- range .root.Values.secretVariables }}
{{- if or (not (contains "PASSWORD" .variable)) (include "relevanced.uses" (dict "role" $role "variable" .variable)) }}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- with .root.Values.env }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* Where the files of secrets come from. One volume for all, mounted as a whole: what is mounted by subPath stays as it was
       at the start of the pod when its Secret is rotated. Arguments: root context, role. */ -}}
{{- define "relevanced.secretSources" -}}
{{- $role := .role -}}
{{- range .root.Values.secretFiles }}
{{- if include "relevanced.uses" (dict "role" $role "variable" .variable) }}
- secret:
    name: {{ .secret }}
    items:
      - key: {{ .key }}
        path: {{ printf "%s/%s" .secret .key | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* What every container mounts. Arguments: root context, role. */ -}}
{{- define "relevanced.mounts" -}}
{{- $role := .role -}}
- name: config
  mountPath: /etc/relevanced/relevanced.toml
  subPath: relevanced.toml
  readOnly: true
{{- if include "relevanced.secretSources" (dict "root" .root "role" $role) }}
- name: secrets
  mountPath: /etc/relevanced/secrets
  readOnly: true
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* The volumes of every pod. Arguments: root context, role, configMap (its name). */ -}}
{{- define "relevanced.volumes" -}}
{{- $role := .role -}}
- name: config
  configMap:
    name: {{ .configMap }}
{{- with include "relevanced.secretSources" (dict "root" .root "role" $role) }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
    {{- . | nindent 4 }}
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
