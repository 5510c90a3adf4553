"""Other people's manifests turned into ours: early drafts of this API, the official operator's, smoketurner's.

Pure: text in, text out. Nothing is guessed in silence: what a source says and this API cannot is told, and so is
every field that no dialect knows. A password never leaves a Secret, not even for a comment.
"""

# Whose a ValkeyCluster is, as people say it.
OFFICIAL, DRAFT, OURS = CHOICES = ("official", "draft", "this")
