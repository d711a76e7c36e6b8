/* A library of an older version, which a test preloads. */
int synced_mem_version(void);
int synced_mem_version(void)
{
    return 199;
}
