"""The paper's figures and claims as frozen values."""
