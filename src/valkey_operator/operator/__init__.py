"""The operator: one file per controller, each observe → decide → carry out → report."""
