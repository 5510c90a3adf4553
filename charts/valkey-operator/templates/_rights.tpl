{{- /* What no Role can give: things that are in no namespace. */ -}}
{{- define "valkey-operator.rights-everywhere" -}}
# Whose the custom resources are: asked before anything is done with them. Most clusters let everybody ask.
- nonResourceURLs: [/apis/valkey.io/*]
  verbs: [get]
# Whether a machine was deleted or fenced: then nothing runs there any more, which nothing else proves.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- with .Values.watch.namespaces }}
# Whether one of them was deleted. Its Role went with it, and what may not be seen is not taken for gone.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end }}
{{- end }}

{{- /* What the operator does where Valkey runs. */ -}}
{{- define "valkey-operator.rights-in-namespaces" -}}
# What people ask for. The operator only reads it; `get` where the outcome of a write to the status is not known.
- apiGroups: [valkey.io]
  resources: [valkeys, valkeyclusters]
  verbs: [get, list, watch]
# What people ask for all of them.
- apiGroups: [valkey.io]
  resources: [valkeyclusterdefaults]
  verbs: [list, watch]
# How it is.
- apiGroups: [valkey.io]
  resources:
    - valkeys/status
    - valkeyclusters/status
    - valkeynodes/status
    - valkeycertificatebundles/status
    - valkeycertificatebindings/status
  verbs: [patch]
# Owner references that block the deletion of the owner need this, where the API server enforces it.
- apiGroups: [valkey.io]
  resources: [valkeys/finalizers, valkeyclusters/finalizers, valkeynodes/finalizers]
  verbs: [update]
# One per server, made by the operator alone.
- apiGroups: [valkey.io]
  resources: [valkeynodes]
  verbs: [get, list, watch, create, patch, delete]
# The records of the certificates.
- apiGroups: [valkey.io]
  resources: [valkeycertificatebundles, valkeycertificatebindings]
  verbs: [get, list, watch, create, patch]
# What runs the servers; it goes with its ValkeyNode.
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [get, list, watch, create, patch]
# Pods are watched to see how servers are, marked so that their files are brought at once, and deleted when only a new one
# can have what was asked for.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# Other resources for a running server.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
# Addresses of servers. The Services for reads and for metrics go when they are no longer asked for.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# How many servers may be evicted at once; none is kept for a lone one.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# Configuration of servers, and their volumes, which are never deleted without being told.
- apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
# Passwords of the system users, and certificates. Only metadata is watched, but the API knows no narrower right.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
# Says what it does.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- /* What the operator does where it runs itself. */ -}}
{{- define "valkey-operator.rights-at-home" -}}
# Which replica leads.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# Of Leases only that one; to make a new one cannot be limited to a name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [valkey-operator]
  verbs: [get, list, watch, update]
# The record of the root of all certificates.
- apiGroups: [valkey.io]
  resources: [valkeycas]
  verbs: [get, list, watch, create, patch]
# Whether it is valid, and until when.
- apiGroups: [valkey.io]
  resources: [valkeycas/status]
  verbs: [patch]
{{- if .Values.watch.namespaces }}
# The root itself, and the operator's own certificate.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
# Defaults for all namespaces.
- apiGroups: [valkey.io]
  resources: [valkeyclusterdefaults]
  verbs: [list, watch]
{{- end }}
{{- end }}
