from kit import *
main()
