{{- /* The Deployment of one role. Arguments: root context, role, its values (of), strategy, scaled (by KEDA). */ -}}
{{- define "relevanced.deployment" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $role := .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "relevanced.name" $root }}-{{ .role }}
  labels:
    {{- include "relevanced.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  {{- if not .scaled }}
  replicas: {{ .of.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "relevanced.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  strategy:
    {{- toYaml .strategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- include "relevanced.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        {{- if $values.existingConfigMap }}
        # Change it to restart the pods with a changed ConfigMap.
        relevanced/config: {{ $values.existingConfigMap }}
        {{- else }}
        checksum/config: {{ $values.config | sha256sum }}
        {{- end }}
        {{- with .of.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "relevanced.serviceAccount" $root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with .of.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "relevanced.podSecurity" $root | nindent 8 }}
      containers:
        - name: relevanced
          image: {{ include "relevanced.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            - run
            {{- with $values.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            - --config
            - /etc/relevanced/relevanced.toml
            - --role
            - {{ .role }}
          ports:
            - name: http
              containerPort: {{ $values.http.port }}
          env:
            {{- include "relevanced.env" (dict "root" $root "role" $role) | nindent 12 }}
          # /livez: the event loop runs; a failure restarts the container. /readyz of an exporter: it serves; a failure only
          # removes the pod from the Service. Workers are in none: their readiness only paces a roll-out, and must not hold
          # the one that is to mend a stopped lane, a clock or what a server refuses. So theirs is /startedz: configuration,
          # Kafka and Redis were good for this process once. /readyz of a worker still says all, for people and alerts.
          livenessProbe:
            httpGet:
              path: /livez
              port: http
              scheme: {{ $values.http.scheme }}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: {{ if eq $role "worker" }}/startedz{{ else }}/readyz{{ end }}
              port: http
              scheme: {{ $values.http.scheme }}
            periodSeconds: 5
            timeoutSeconds: 3
          securityContext:
            {{- include "relevanced.containerSecurity" $root | nindent 12 }}
          resources:
            {{- toYaml .of.resources | nindent 12 }}
          volumeMounts:
            {{- include "relevanced.mounts" (dict "root" $root "role" $role) | nindent 12 }}
      volumes:
        {{- include "relevanced.volumes" (dict "root" $root "role" $role "configMap" (include "relevanced.configMap" $root)) | nindent 8 }}
      {{- with .of.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .of.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .of.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if .of.topologySpreadConstraints }}
        {{- toYaml .of.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "relevanced.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ .role }}
        {{- end }}
{{- end -}}
