"""What every policy is made of; the algorithms themselves stand one folder up, one file each."""
