/* A Vulkan layer that lowers the storage buffers a shader may bind, to what HUBPUBLISH_STORAGE_BUFFERS says.
 *
 * A device with fewer is the one thing that a software adapter is not. WebGPU implementations take the limit
 * from VkPhysicalDeviceLimits::maxPerStageDescriptorStorageBuffers, so that is all that is changed; nothing
 * else is intercepted. Declared here is what the layer interface and two structures of the Vulkan
 * specification need, as the headers of Vulkan are on few machines.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*Function)(void);
typedef Function (*GetProcAddr)(void *instance, const char *name);

typedef struct Header { int32_t type; struct Header *next; } Header;

typedef struct {
    int32_t type;
    void *next;
    uint32_t version;
    GetProcAddr instance_proc_addr, device_proc_addr, physical_device_proc_addr;
} Negotiation; /* VkNegotiateLayerInterface */

typedef struct Link { struct Link *next; GetProcAddr instance_proc_addr, physical_device_proc_addr; } Link;
typedef struct { Header header; int32_t function; Link *link; } Chain; /* VkLayerInstanceCreateInfo */
enum { LOADER_INSTANCE_CREATE_INFO = 47, LAYER_LINK_INFO = 0 };

/* VkPhysicalDeviceProperties: five uint32, a name of 256 bytes, 16 bytes of UUID, then the limits, which are
 * aligned to 8 bytes as they hold 64-bit sizes. Among these maxPerStageDescriptorStorageBuffers comes after
 * eleven uint32, two 64-bit sizes, one uint32 and two more. */
enum { LIMITS = 296, STORAGE_BUFFERS = LIMITS + 48 + 16 + 12 };
/* VkPhysicalDeviceProperties2: a header, then the same. */
enum { PROPERTIES = sizeof(Header) };

typedef int32_t (*CreateInstance)(const Header *info, const void *allocator, void **instance);
typedef void (*GetProperties)(void *device, unsigned char *properties);

static GetProcAddr next_proc_addr;
static GetProperties next_properties, next_properties2;

static void lower(unsigned char *properties) {
    const char *wanted = getenv("HUBPUBLISH_STORAGE_BUFFERS");
    uint32_t limit = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : 0, has;
    memcpy(&has, properties + STORAGE_BUFFERS, sizeof has);
    if (limit && limit < has) memcpy(properties + STORAGE_BUFFERS, &limit, sizeof limit);
}

static void get_properties(void *device, unsigned char *properties) {
    next_properties(device, properties);
    lower(properties);
}

static void get_properties2(void *device, unsigned char *properties) {
    next_properties2(device, properties);
    lower(properties + PROPERTIES);
}

static int32_t create_instance(const Header *info, const void *allocator, void **instance) {
    Header *each = info->next;
    while (each && !(each->type == LOADER_INSTANCE_CREATE_INFO && ((Chain *)each)->function == LAYER_LINK_INFO))
        each = each->next;
    if (!each) return -3; /* VK_ERROR_INITIALIZATION_FAILED: not called by a loader */
    Chain *chain = (Chain *)each;
    next_proc_addr = chain->link->instance_proc_addr;
    chain->link = chain->link->next;
    return ((CreateInstance)next_proc_addr(NULL, "vkCreateInstance"))(info, allocator, instance);
}

static Function get_proc_addr(void *instance, const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)get_proc_addr;
    if (!strcmp(name, "vkCreateInstance")) return (Function)create_instance;
    Function next = next_proc_addr ? next_proc_addr(instance, name) : NULL;
    if (next && !strcmp(name, "vkGetPhysicalDeviceProperties")) {
        next_properties = (GetProperties)next;
        return (Function)get_properties;
    }
    if (next && (!strcmp(name, "vkGetPhysicalDeviceProperties2") ||
                 !strcmp(name, "vkGetPhysicalDeviceProperties2KHR"))) {
        next_properties2 = (GetProperties)next;
        return (Function)get_properties2;
    }
    return next;
}

EXPORT int32_t vkNegotiateLoaderLayerInterfaceVersion(Negotiation *with) {
    if (with->version > 2) with->version = 2;
    with->instance_proc_addr = get_proc_addr;
    with->device_proc_addr = NULL;
    with->physical_device_proc_addr = NULL;
    return 0;
}
