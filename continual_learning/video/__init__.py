"""Videos of a robot, by MuJoCo's own renderer or as a sketch if there is no OpenGL."""
