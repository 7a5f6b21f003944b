"""Pictures of a robot: with MuJoCo's own renderer, or as a sketch where there is no OpenGL."""
