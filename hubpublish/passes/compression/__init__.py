"""Computing large constants from smaller ones: in which forms that can be done, and with which nodes."""
