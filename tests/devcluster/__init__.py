"""Tests of the ground itself: the embedded cluster does what a Kubernetes does, and breaks as told."""
